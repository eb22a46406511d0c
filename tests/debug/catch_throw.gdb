# C++ exceptions: where they are thrown, and caught.
# program: exceptions.cc
tbreak main
continue
catch throw
#> Catchpoint 2 (throw)
catch catch
#> Catchpoint 3 (catch)
continue
#> Catchpoint 2 (exception thrown)
backtrace
#> fails (n=2)
#> tries (n=2)
#> main ()
print cleaned
#> = 2
continue
#> Catchpoint 3 (exception caught)
frame function tries
print cleaned
#> = 3
reverse-continue
#> Catchpoint 2 (exception thrown)
frame function fails
print cleaned
#> = 2
