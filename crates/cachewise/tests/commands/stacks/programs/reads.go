// Reads one page, and sixteen, at known functions and lines: `reads FILE`.
package main

import (
	"os"
	"time"
)

const (
	page   = 4096
	stride = 64 * page
)

//go:noinline
func loadIndex(file *os.File, place int64) int {
	buffer := make([]byte, page)
	bytes, _ := file.ReadAt(buffer, place) // index
	return bytes + 1
}

//go:noinline
func loadTable(file *os.File, place int64) int {
	buffer := make([]byte, 16*page)
	bytes, _ := file.ReadAt(buffer, place) // table
	return bytes + 1
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		os.Exit(1)
	}
	sum := 0
	for place := int64(0); place < 64; place++ {
		sum += loadIndex(file, place*stride)
	}
	for place := int64(64); place < 80; place++ {
		sum += loadTable(file, place*stride)
	}
	// mappings are read while a process lives: on a busy machine that takes a while
	time.Sleep(300 * time.Millisecond)
	if sum != 64*(page+1)+16*(16*page+1) {
		os.Exit(1)
	}
}
