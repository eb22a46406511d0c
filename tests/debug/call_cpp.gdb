# Methods of C++, constructors too, and exceptions that are thrown in a called function.
# program: exceptions.cc
break exceptions.cc:35
continue
#> printf
print results.size()
#> = 3
print results.back()
#> ~ (= |: )15\n
print results[2]
#> ~ (= |: )15\n
print tries(2)
#> = 15
print cleaned
#> = 3
print fails(2)
#> ~ exception|SIGABRT
print cleaned
#> = 3
print results.size()
#> = 3
