// gogzip: standard input through Go's compress/gzip, as most image layers were made. The bench's corpus is made with it.
package main

import (
	"compress/gzip"
	"io"
	"os"
)

func main() {
	out := gzip.NewWriter(os.Stdout)
	if _, err := io.Copy(out, os.Stdin); err != nil {
		panic(err)
	}
	if err := out.Close(); err != nil {
		panic(err)
	}
}
