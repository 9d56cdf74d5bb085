module cellserver/bench

go 1.26.0
