# In a recording by single steps, a loop is gone over, and gone back into, without as many single steps each time: to a call, no branch has to be
# counted. The transcript's time is the test.
# program: rounds_7000.c
# record: --ticks=stepping
# modes: hooks
break 16
continue
#> puts("end");
delete
reverse-next
#> for (int i
reverse-step
#> add (
reverse-step
#> return a + b;
print a + b
#> = 24496500
watch total
reverse-continue
#> New value
print total
delete
break add if b == 3500
reverse-continue
#> add (
print b
#> = 3500
