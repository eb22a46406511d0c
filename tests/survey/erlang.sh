#!/bin/bash
# Erlang: ten thousand processes on the schedulers of its machine.
# needs: erl
# version: dpkg-query -W -f '${Version}\n' erlang-base
# limit: 300
# record
erl -noshell -eval 'S = self(), [spawn(fun() -> S ! N * 2 end) || N <- lists:seq(1, 10000)], T = lists:sum([receive X -> X end || _ <- lists:seq(1, 10000)]), io:format("~p~n", [T]), halt(3).'; echo "status $?"
# check
grep -q '^100010000$' "$OUT" && grep -q '^status 3$' "$OUT"
