# Places that are found by their state are proven before the session begins: a replay of all has been made by then.
# program: two_computing.c
# modes: no-hooks
shell cat ../trace/places
#> proven
