#!/bin/bash
# SBCL (a collector with signals, core files), guile (a compiler at run time) and tcl.
# needs: sbcl guile tclsh
# limit: 240
# setup
echo '(defun f (n) (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (print (f 24)) (gc :full t) (let ((l (loop for i below 300000 collect (list i)))) (print (length l))) (print (handler-case (car 3) (error (e) (declare (ignore e)) :caught))) (terpri)' > a.lisp
echo '(use-modules (ice-9 threads)) (display (par-map (lambda (x) (* x x)) (iota 10))) (newline) (display (apply + (iota 100000))) (newline)' > a.scm
printf 'proc f {n} { expr {$n < 2 ? $n : [f [expr {$n-1}]] + [f [expr {$n-2}]]} }\nputs [f 15]\nafter 50 {set done 1}\nvwait done\nputs [exec echo sub]\n' > a.tcl
# record
export HOME=$PWD XDG_CACHE_HOME=$PWD; sbcl --script a.lisp; guile --no-auto-compile a.scm; tclsh a.tcl
# check
grep -q ':CAUGHT' "$OUT" && grep -q '^4999950000$' "$OUT" && grep -q '^610$' "$OUT"
