# Backwards over exceptions: breakpoints and destructors.
# program: exceptions.cc
# modes: hooks no-hooks software
break exceptions.cc:35
continue
#> printf
print results[2]
watch cleaned
reverse-continue
#> Old value = 3
#> New value = 2
backtrace
#> Guard::~Guard
#> fails (n=2)
reverse-continue
#> Old value = 2
#> New value = 1
tbreak fails
continue
