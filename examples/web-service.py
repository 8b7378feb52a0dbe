# SPDX-License-Identifier: Apache-2.0
"""A small web service that answers its own client for some seconds: something to record.

    pystack record -- python3 examples/web-service.py [SECONDS]

Three pages: /search scans its articles word by word (this is where the time goes),
/list renders JSON, /slow waits for a "database".
"""
import http.client
import http.server
import json
import random
import sys
import threading
import time

WORDS = "a sampling profiler shows where the time of a program goes".split()
ARTICLES = [
    {"id": i, "title": "Article %d" % i, "text": " ".join(random.choices(WORDS, k=400))}
    for i in range(60)
]


def count_words(text):
    """The needless part: counts all words again for every request."""
    counts = {}
    for word in text.split(" "):
        counts[word.lower()] = counts.get(word.lower(), 0) + 1
    return counts


def score(article, terms):
    counts = count_words(article["text"])
    return sum(counts.get(term, 0) for term in terms)


def search(terms):
    ranked = sorted(ARTICLES, key=lambda article: score(article, terms), reverse=True)
    return [article["title"] for article in ranked[:10]]


def render_list():
    return [{"id": a["id"], "title": a["title"], "length": len(a["text"])} for a in ARTICLES]


def query_database():
    time.sleep(0.02)
    return ["a row"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

    def do_GET(self):
        if self.path == "/search":
            answer = search(["profiler", "time"])
        elif self.path == "/list":
            answer = render_list()
        else:
            answer = query_database()
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


def ask(port, end, paths, answers):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while time.monotonic() < end:
        connection.request("GET", random.choice(paths))
        connection.getresponse().read()
        answers.append(1)
    connection.close()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, name="accept", daemon=True).start()
    end = time.monotonic() + seconds
    answers = []
    clients = [
        threading.Thread(
            target=ask,
            name="client-%d" % i,
            args=(server.server_address[1], end, ["/search", "/list", "/slow"], answers),
        )
        for i in range(3)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    server.shutdown()
    print("%d requests answered in %.0f s" % (len(answers), seconds))


if __name__ == "__main__":
    main()
