// SPDX-License-Identifier: MIT

// A Go program that uses C's malloc, from many goroutines: Go's own memory does not come from malloc.
package main

/*
#include <stdlib.h>
#include <string.h>

static char *filled(size_t size, int with) { return memset(malloc(size), with, size); }
static int sum(const char *block, size_t size) {
    int total = 0;
    for (size_t i = 0; i < size; i++)
        total += block[i];
    return total;
}
*/
import "C"

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"unsafe"
)

func work(seed, rounds int) int {
	total := 0
	for i := 0; i < rounds; i++ {
		size := C.size_t(1 + (seed*7919+i*31)%3000)
		block := C.filled(size, C.int(i%100))
		block = (*C.char)(C.realloc(unsafe.Pointer(block), size*2))
		total += int(C.sum(block, size))
		text := C.CString(strings.Repeat("x", i%200))
		total += len(C.GoString(text))
		C.free(unsafe.Pointer(text))
		C.free(unsafe.Pointer(block))
	}
	return total
}

func main() {
	const workers, rounds = 8, 5000
	results := make([]int, workers)
	var all sync.WaitGroup
	for i := 0; i < workers; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			results[i] = work(i, rounds)
		}(i)
	}
	all.Wait()
	sort.Ints(results)
	fmt.Println(results)
}
