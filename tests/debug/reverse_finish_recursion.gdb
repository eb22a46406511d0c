# reverse-finish one frame at a time, out of the middle of a recursion.
# program: recursion.c
break factorial if n == 2
continue
#> factorial (n=2)
delete
next
#> if (n <= 1)
reverse-finish
#> factorial (n=3)
#> int rest = factorial(n - 1);
reverse-finish
#> factorial (n=4)
#> int rest = factorial(n - 1);
reverse-finish
#> factorial (n=5)
reverse-finish
#> main ()
#> int result = factorial(5);
