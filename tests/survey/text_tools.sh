#!/bin/bash
# bc, awk (two of them), jq, sed, m4, bison and flex, units of a text's life.
# needs: bc gawk mawk jq m4 bison flex gcc
# version: gawk --version
# setup
printf '%%%%\n[0-9]+ return 1;\n. ;\n%%%%\nint yywrap(void) { return 1; } int main(void) { int n = 0; while (yylex()) n++; return n; }\n' > a.l
printf '%%{\nint yylex(void); void yyerror(const char *s) { }\n%%}\n%%%%\na: ;\n%%%%\nint yylex(void) { return 0; } int main(void) { return yyparse(); }\n' > b.y
# record
echo 'scale=200; 4*a(1)' | bc -l; seq 20000 | gawk '{ s[$1 % 7] += $1 } END { for (k in s) print k, s[k] }' | sort; seq 20000 | mawk '{ t += length($0) } END { print t }'; seq 1000 | jq -s 'map(select(. % 7 == 0)) | add'; echo 'define(`f'"'"', `$1$1'"'"')f(x)' | m4; flex a.l && gcc -o a lex.yy.c && echo 1 2 3 | ./a; echo $?; bison -o b.c b.y && gcc -o b b.c && ./b; echo $?
# check
tail -1 "$OUT" | grep -q '^0$'
