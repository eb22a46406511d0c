# A Go program with goroutines, forwards and backwards. (Without hooks, and where cpuid cannot be made to fault, its
# start asks cpuid for the core it is on, which is another one in replay.)
# program: goroutines.go
# modes: hooks
set language go
break main.report
continue
#> main.report (sum=14)
backtrace
#> main.report
#> main.main
break main.square
reverse-continue
#> main.square
reverse-continue
#> main.square
delete
break main.main
reverse-continue
#> main.main
set language c
watch -location 'main.answered'
continue
#> Old value = 0
#> New value = 14
