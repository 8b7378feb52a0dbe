# SPDX-License-Identifier: Apache-2.0
"""Wanders through calls, each from one of eight lines by chance, until it is ended: nearly
every stack is a new one.  wanders.py [WORD]
"""
import random

draw = random.Random(1).getrandbits


def wander(depth, way):
    turn = way & 7
    if depth == 0:
        return 0
    if turn == 0:
        return wander(depth - 1, way >> 3) + 1
    if turn == 1:
        return wander(depth - 1, way >> 3) + 2
    if turn == 2:
        return wander(depth - 1, way >> 3) + 3
    if turn == 3:
        return wander(depth - 1, way >> 3) + 4
    if turn == 4:
        return wander(depth - 1, way >> 3) + 5
    if turn == 5:
        return wander(depth - 1, way >> 3) + 6
    if turn == 6:
        return wander(depth - 1, way >> 3) + 7
    return wander(depth - 1, way >> 3) + 8


while True:
    wander(16, draw(48))
