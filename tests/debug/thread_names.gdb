# Threads have the names that they had then.
# program: names.c
break named
continue
info threads
#> "names
continue
info threads
#> "names
#> "first worker"
continue
info threads
#> "the main one"
#> "a name that is "
reverse-continue
info threads
#> "names
#> "first worker"
#> ! the main one
