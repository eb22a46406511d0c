#!/usr/bin/env python3
"""Calls, loops and a little memory, until the interpreter ends."""

words = {}
for number in range(4000):
    words.setdefault(str(number % 97), []).append(number * number)
print(sum(len(values) for values in words.values()))
