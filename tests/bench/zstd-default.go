// zstd-default: standard input through the zstd of klauspost/compress at its default level, as Hauler's `store save` compresses.
package main

import (
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

func main() {
	out, err := zstd.NewWriter(os.Stdout)
	if err != nil {
		panic(err)
	}
	if _, err := io.Copy(out, os.Stdin); err != nil {
		panic(err)
	}
	if err := out.Close(); err != nil {
		panic(err)
	}
}
