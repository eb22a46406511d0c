# A watchpoint with a condition, in languages in which gdb cannot read what its own -location makes of an expression.
# program: goroutines.go
# modes: hooks
set language go
break main.report
continue
#> main.report (sum=14)
watch-if 'main.answered' 'main.answered' > 10
#> Hardware watchpoint 2
continue
#> ! Python Exception
#> New value = 14
reverse-continue
#> New value = 0
condition 2
#> unconditional
continue
#> Old value = 0
#> New value = 14
