# A child that executes another program, with -p: from its exec.
# program: forks.c
# other: other.c
# args: fork {other}
# replay: -p {fork}
break main
continue
#> others_own++;
print others_own
#> = 5
continue
#> other 6
