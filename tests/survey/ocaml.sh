#!/bin/bash
# OCaml: the native compiler and the interpreter.
# needs: ocaml ocamlopt
# version: ocaml -version
# setup
echo 'let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2) let () = let l = List.init 100000 (fun i -> i * i) in Printf.printf "%d %d\n" (fib 22) (List.fold_left (+) 0 l)' > a.ml
# record
ocaml a.ml && ocamlopt -o a a.ml && ./a
# check
test "$(sort -u "$OUT" | wc -l)" = 1
