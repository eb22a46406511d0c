# A program with optimization: inlined functions, values in registers.
# program: optimized.c
# cflags: -O2
break churn
continue
#> churn (seed=seed@entry=1, rounds=rounds@entry=10)
finish
#> Value returned is $1 =
continue
#> Breakpoint 1, churn (
watch last
continue
#> Hardware watchpoint 2: last
reverse-continue
#> Hardware watchpoint 2: last
reverse-continue
#> Breakpoint 1, churn (
reverse-continue
#> Hardware watchpoint 2: last
