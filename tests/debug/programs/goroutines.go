// Goroutines that answer over a channel.
package main

import "fmt"

var answered int

func square(n int, answers chan int) {
	answers <- n * n
}

func report(sum int) {
	answered = sum
	fmt.Println("sum", sum)
}

func main() {
	answers := make(chan int)
	for n := 1; n <= 3; n++ {
		go square(n, answers)
	}
	sum := 0
	for n := 1; n <= 3; n++ {
		sum += <-answers
	}
	report(sum)
}
