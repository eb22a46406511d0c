# A place that one session has shown is where another one begins with it. (The number of an event is such a place.)
# program: calls.c
# replay: -g 3
print $_bis_place
#> = "3"
when
#> Completed event: 3
