library(testthat)
library(dpmcmcR)

test_check("dpmcmcR")
