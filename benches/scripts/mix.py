"""A mix of what Python programs do: JSON, regular expressions, dictionaries, classes, sorting, files.

usage: mix.py ROUNDS FOLDER      prints one line for each part, the same in every run
"""

import hashlib
import json
import os
import re
import sys

ROUNDS, FOLDER = int(sys.argv[1]), sys.argv[2]


class Account:
    def __init__(self, name):
        self.name, self.balance, self.moves = name, 0, []

    def move(self, amount):
        self.balance += amount
        self.moves.append(amount)


def chance(seed):
    while True:
        seed = (seed * 1103515245 + 12345) % 2**31
        yield seed >> 8


def documents(count):
    numbers = chance(count)
    rows = [{"id": i, "tags": [f"t{next(numbers) % 50}" for _ in range(5)], "size": next(numbers)} for i in range(count)]
    again = json.loads(json.dumps(rows, indent=1))
    assert again == rows
    return sum(row["size"] for row in again)


def words(count):
    numbers = chance(7)
    text = " ".join(f"word{next(numbers) % 500}@host{i % 9}.net, 2{i % 10:03}-0{1 + i % 9}-11;" for i in range(count))
    mails = re.findall(r"(\w+)@(\w+)\.net", text)
    dates = re.sub(r"(\d{4})-(\d\d)-(\d\d)", r"\3.\2.\1", text)
    counted = {}
    for name, host in mails:
        counted[name, host] = counted.get((name, host), 0) + 1
    return len(counted), hashlib.sha256(dates.encode()).hexdigest()[:12]


def accounts(count):
    numbers = chance(11)
    all_of_them = {f"a{i}": Account(f"a{i}") for i in range(100)}
    for _ in range(count):
        all_of_them[f"a{next(numbers) % 100}"].move(next(numbers) % 201 - 100)
    richest = sorted(all_of_them.values(), key=lambda account: (-account.balance, account.name))
    return richest[0].name, richest[0].balance


def files(count):
    total = 0
    for i in range(count):
        path = os.path.join(FOLDER, f"file-{i}.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"line {n} of {i}\n" for n in range(50))
        with open(path, encoding="utf-8") as file:
            total += sum(len(line) for line in file)
        os.rename(path, path + ".old")
    for name in sorted(os.listdir(FOLDER)):
        total += os.stat(os.path.join(FOLDER, name)).st_size
        os.remove(os.path.join(FOLDER, name))
    return total


for part, size in (documents, 800), (words, 3000), (accounts, 8000), (files, 60):
    results = {part(size) for _ in range(ROUNDS)}
    assert len(results) == 1, results
    print(part.__name__, results.pop())
