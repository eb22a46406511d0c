#!/bin/bash
# Racket, Chez Scheme, gforth, nim and Free Pascal (compilers and what they compile), Maxima.
# needs: racket scheme gforth nim fpc maxima
# package: racket
# limit: 240
# setup
echo '#lang racket/base
(require racket/place racket/future) (define f (future (lambda () (for/sum ([i 100000]) i)))) (displayln (touch f))
(define t (thread (lambda () (displayln "thread")))) (thread-wait t) (displayln (apply + (for/list ([i 1000]) (* i i)))) (collect-garbage)
(with-handlers ([exn:fail? (lambda (e) (displayln "caught"))]) (car 1))' > a.rkt
echo '(display (let loop ((i 0) (s 0)) (if (= i 1000000) s (loop (+ i 1) (+ s i))))) (newline) (define m (make-mutex)) (define c (make-condition)) (define d #f) (fork-thread (lambda () (with-mutex m (set! d #t) (condition-signal c)))) (with-mutex m (let w () (if (not d) (begin (condition-wait c m) (w))))) (display "thread\n") (exit)' > a.ss
echo ': f dup 2 < if else dup 1- recurse swap 2 - recurse + then ; 22 f . cr bye' > a.fs
printf 'import std/[threadpool, sequtils]\nproc f(n: int): int = (if n < 2: n else: f(n-1) + f(n-2))\nvar r: seq[FlowVar[int]]\nfor i in 1..4: r.add(spawn f(20 + i))\nfor x in r: echo ^x\n' > a.nim
printf '{$mode objfpc}program a; uses cthreads, classes, sysutils; type T = class(TThread) procedure Execute; override; end; procedure T.Execute; begin writeln(%sthread%s); end; var t1: T; x: integer; begin t1 := T.Create(false); t1.WaitFor; try x := 0; writeln(1 div x); except on e: Exception do writeln(e.ClassName); end; end.\n' "'" "'" > a.pas
# record
export HOME=$PWD; racket a.rkt; scheme --script a.ss < /dev/null; gforth a.fs; nim c --threads:on --hints:off --nimcache:cache a.nim 2> /dev/null && ./a; fpc -v0 -oap a.pas > /dev/null && ./ap; maxima --very-quiet --batch-string='display2d:false;factor(2^64+1);integrate(x^2*sin(x),x);'
# check
grep -q '^caught' "$OUT" && grep -q 46368 "$OUT" && grep -q EDivByZero "$OUT" && grep -q 274177 "$OUT"
