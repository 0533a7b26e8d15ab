# SPDX-License-Identifier: MIT
"""The service of docs/python-leak.md. Each order is parsed, which takes memory for a moment; its answer is kept in a cache of
20; and its session is remembered for good, which is the bug."""

import json
import time

sessions = {}
answers = {}


def parse_order(number):
    text = json.dumps({"order": number, "items": [{"article": article, "note": "x" * 600} for article in range(20)]})
    return json.loads(text)


def cache_answer(number):
    answers[number % 20] = bytearray(4000)


def remember_session(number):
    sessions[number] = bytearray(2000)


number = 0
while True:
    parse_order(number)
    cache_answer(number)
    remember_session(number)
    number += 1
    time.sleep(0.002)
