package main

import "sync"

var (
	lock    sync.Mutex
	balance int
)

func take() { lock.Lock() }

//go:noinline
func deposit(amount int) {
	take()
	balance += amount
	lock.Unlock()
}

func main() {
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 3000; n++ {
				deposit(n)
			}
		}()
	}
	group.Wait()
}
