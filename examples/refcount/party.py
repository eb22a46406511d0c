#!/usr/bin/env python3
# Invites the members of a club. argv[1]: the module club.
import importlib.util
import os
import sys

spec = importlib.util.spec_from_file_location("club", sys.argv[1])
club = importlib.util.module_from_spec(spec)
spec.loader.exec_module(club)

for number in range(100):
    club.add(f"member {number}" + (" the great" if number == 42 else ""))
width = club.longest()
tables = [f"table {number} for the guests" for number in range(30)]
for member in club.all():
    if not member.startswith("member"):
        print(f"who is {member!r}?", flush=True)
        os.abort()
print(f"{width}: all are invited")
