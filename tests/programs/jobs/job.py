# SPDX-License-Identifier: MIT
# Dictionaries, JSON and hashing on four threads.
import hashlib, json, threading


def job(seed, out):
    rows = [
        {"id": i, "key": "k%d" % (i * 7919 % 5003), "tags": [seed, i % 7], "text": "t" * (i % 50)} for i in range(40000)
    ]
    index = {}
    for row in rows:
        index.setdefault(row["key"], []).append(row["id"])
    text = json.dumps(sorted(rows, key=lambda row: (row["key"], -row["id"])))
    assert len(json.loads(text)) == len(rows) and len(index) == 5003
    out[seed] = hashlib.sha256(text.encode()).hexdigest()


out = {}
threads = [threading.Thread(target=job, args=(seed, out)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for seed in sorted(out):
    print(seed, out[seed])
