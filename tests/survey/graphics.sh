#!/bin/bash
# ImageMagick, ghostscript, graphviz and gnuplot make and change pictures.
# needs: convert gs dot gnuplot
# version: convert --version
# limit: 240
# varies: identify prints how long it took
# setup
printf '%%!\n/Helvetica findfont 40 scalefont setfont 50 50 moveto (Hello) show showpage\n' > a.ps
# record
convert -size 200x200 plasma:red-blue -seed 1 -blur 0x3 a.png; convert rose: -resize 300% -rotate 30 b.png && identify b.png; gs -q -dNOPAUSE -dBATCH -sDEVICE=pnggray -r50 -sOutputFile=c.png a.ps; echo 'digraph { a -> b -> c; a -> c }' | dot -Tsvg | grep -c '<g'; echo 'set term png; set output "d.png"; plot sin(x)' | gnuplot; ls *.png
# check
test -s a.png && test -s b.png && test -s c.png && test -s d.png
