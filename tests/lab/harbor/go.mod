module lab

go 1.24.0
