#!/bin/bash
# emacs in batch mode: byte compilation, org, a subprocess.
# needs: emacs
# limit: 240
# setup
cat > work.el <<'END'
(require 'org) (require 'json)
(with-temp-buffer (insert "* A\n** B\n| 1 | 2 |\n| 3 | 4 |\n#+TBLFM: $2=$1*10\n") (org-mode) (goto-char (point-max)) (forward-line -2)
 (org-table-recalculate 'all) (princ (buffer-string)))
(princ (json-encode '((a . 1) (b . [1 2 3])))) (terpri)
(princ (shell-command-to-string "echo sub; seq 3")) 
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (byte-compile 'fib) (princ (fib 20)) (terpri)
END
# record
emacs --batch -Q -l work.el
# check
grep -q '^6765$' "$OUT"
