module go_jacobi

go 1.26
