#!/bin/bash
# LaTeX sets a document, twice.
# needs: pdflatex
# limit: 240
# varies: the log shows sizes of what holds a time
# setup
printf '\\documentclass{article}\\begin{document}\\section{A}\\label{a} See \\ref{a}: $\\int_0^1 x^2 dx$.\\end{document}\n' > a.tex
# record
pdflatex -interaction=batchmode a.tex && pdflatex -interaction=batchmode a.tex
# check
head -c 5 a.pdf | grep -q '%PDF' && ! grep -q 'Rerun' a.log
