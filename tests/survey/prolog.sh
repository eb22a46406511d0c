#!/bin/bash
# SWI-Prolog: search, threads, a garbage collector.
# needs: swipl
# limit: 240
# setup
cat > a.pl <<'END'
queens(N, Qs) :- numlist(1, N, Ns), permutation(Ns, Qs), safe(Qs).
safe([]). safe([Q|Qs]) :- no(Q, 1, Qs), safe(Qs).
no(_, _, []). no(Q, D, [X|Xs]) :- X =\= Q + D, X =\= Q - D, D1 is D + 1, no(Q, D1, Xs).
main :- queens(6, Q), print(Q), nl, concurrent_maplist([X,Y]>>(Y is X * X), [1,2,3,4], L), print(L), nl, halt(2).
END
# record
swipl -q -g main a.pl; echo "status $?"
# check
grep -q '^status 2$' "$OUT"
