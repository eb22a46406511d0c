# An interpreter: deep calls, much memory, few events.
# modes: default software lazy
import json
import re

words = {}
for i in range(3000):
    word = "w%d" % (i * 7919 % 251)
    words[word] = words.get(word, 0) + len(re.sub("[0-9]", "x", word))
text = json.dumps(words, sort_keys=True)
print(len(text), hash(tuple(json.loads(text).values())))
