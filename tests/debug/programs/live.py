# Work that an interpreter does in small pieces: memory, files, a library that it loads.
import json
import os

words = {}
for path in sorted(os.listdir("/etc"))[:20]:
    words[path] = len(path)
print("words", len(json.dumps(words)) > 20)
print("end", sum(range(1000)))
