// Goroutines take one lock in a function that the compiler puts into its caller.
package main

import "sync"

var lock sync.Mutex

func take() { lock.Lock() }

//go:noinline
func deposit() {
	take()
	lock.Unlock()
}

func main() {
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 3000; n++ {
				deposit()
			}
		}()
	}
	group.Wait()
}
