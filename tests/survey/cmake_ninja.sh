#!/bin/bash
# cmake configures, ninja builds, ctest tests.
# needs: cmake ninja gcc
# limit: 300
# varies: ctest prints times
# setup
printf 'cmake_minimum_required(VERSION 3.10)\nproject(p C)\nenable_testing()\nadd_library(l STATIC a.c b.c)\nadd_executable(p main.c)\ntarget_link_libraries(p l)\nadd_test(NAME t COMMAND p)\n' > CMakeLists.txt
echo 'int a(void) { return 1; }' > a.c; echo 'int b(void) { return -1; }' > b.c; echo 'int a(void), b(void); int main(void) { return a() + b(); }' > main.c
# record
cmake -G Ninja -S . -B build && ninja -C build && ctest --test-dir build
# check
grep -q '100% tests passed' "$OUT"
