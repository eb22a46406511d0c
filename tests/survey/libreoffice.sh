#!/bin/bash
# LibreOffice without a screen turns a document into a PDF, and a table into CSV.
# needs: soffice
# limit: 400
# varies: it says at times that it could not find Java
# setup
printf 'a,b\n1,=A2*3\n' > table.csv; printf 'Hello\n\nWorld\n' > text.txt
# record
export HOME="$PWD/home"; mkdir -p home
soffice --headless --convert-to pdf text.txt > /dev/null 2>&1; soffice --headless --convert-to ods table.csv > /dev/null 2>&1; head -c 5 text.pdf; ls
# check
test -s text.pdf && test -s table.ods
