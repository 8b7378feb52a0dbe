# SPDX-License-Identifier: Apache-2.0
"""A server of gRPC and its client in one process: so many calls, each with an answer.
The library has threads of its own in C, which call Python."""
import concurrent.futures
import sys

import grpc


def in_handler(request, context):
    n = int(request)
    for i in range(20000):
        n = (n * 31 + i) % 1000003
    return b"%d" % n


def main():
    calls = int(sys.argv[1])
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", {
        "Count": grpc.unary_unary_rpc_method_handler(in_handler)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel("127.0.0.1:%d" % port) as channel:
        count = channel.unary_unary("/test.Test/Count")
        answers = [count.future(b"%d" % i, wait_for_ready=True) for i in range(calls)]
        total = sum(int(answer.result(timeout=60)) for answer in answers)
    server.stop(None).wait()
    print(calls, "calls", total)


main()
