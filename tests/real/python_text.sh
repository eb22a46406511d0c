#!/bin/bash
# python: json, regular expressions, containers, hashing, compression, an import of many modules.
# needs: python3
# setup
cat > script.py <<'SCRIPT'
import argparse, collections, csv, decimal, hashlib, io, json, logging, os, random, re, sqlite3, sys, time, zlib
data = [{"id": i, "name": f"n{i}", "tags": list("abc")[: i % 4], "x": random.random()} for i in range(3000)]
text = json.dumps(data)
assert json.loads(text) == data
print(len(text), hashlib.sha256(text.encode()).hexdigest(), zlib.crc32(text.encode()))
words = re.findall(r"\b[a-z]\w+", text)
print(collections.Counter(words).most_common(5), hash("x"), {w for w in words[:50]})
db = sqlite3.connect("t.db")
db.execute("create table t (a, b)")
db.executemany("insert into t values (?, ?)", [(i, i * i) for i in range(1000)])
db.commit()
print(db.execute("select sum(b), count(*) from t").fetchone(), decimal.Decimal(2).sqrt(), time.time())
print(os.getpid(), sys.version.split()[0], file=sys.stderr)
SCRIPT
# record
exec /usr/bin/python3 script.py
# check
grep -q '(332833500, 1000)' "$OUT"
