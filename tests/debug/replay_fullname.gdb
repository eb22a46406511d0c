# Positions as Emacs reads them.
# program: large.c
# replay: --fullname
tbreak begin
continue
#> ~ .*/tests/debug/programs/large.c:19:[0-9]+:beg:0x
next
#> ~ .*large.c:38:[0-9]+:
