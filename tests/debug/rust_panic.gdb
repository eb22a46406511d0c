# A panic in Rust.
# program: panic.rs
break std::panicking::rust_panic
continue
#> Breakpoint 1
backtrace
#> panic::divide (total=12, parts=0)
#> panic::main ()
frame function panic::divide
print parts
#> = 0
up
print sum
#> = 18
break panic::divide
reverse-continue
#> panic::divide (total=12, parts=0)
reverse-continue
#> panic::divide (total=12, parts=1)
