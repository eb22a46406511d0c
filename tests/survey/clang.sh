#!/bin/bash
# clang and lld compile and link C and C++.
# needs: clang ld.lld
# limit: 300
# setup
printf '#include <map>\n#include <string>\n#include <iostream>\nint main() { std::map<std::string, int> m; for (auto s : {"a", "b", "a"}) m[s]++; for (auto &[k, v] : m) std::cout << k << v << std::endl; }\n' > a.cc
# record
clang++ -std=c++17 -O2 -fuse-ld=lld -o a a.cc && ./a && clang -O1 -S -emit-llvm -x c -o - - < /dev/null | grep -c ident
# check
grep -q '^a2$' "$OUT"
