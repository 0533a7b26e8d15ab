# SPDX-License-Identifier: MIT
# An R job of the benchmark suite: vectors, data frames, a model and strings.
work <- function() {
  set.seed(42)
  frame <- data.frame(id = 1:200000, group = sample(1000, 200000, TRUE), value = rnorm(200000))
  means <- tapply(frame$value, frame$group, mean)
  both <- merge(frame[1:40000, ], data.frame(group = 1:1000, mean = as.vector(means)))
  model <- lm(value ~ mean + I(mean^2), both)
  words <- sort(paste0(sample(letters, 80000, TRUE), sample(1e6, 80000)))
  parts <- strsplit(words, "5")
  c(nrow(both), length(coef(model)), sum(lengths(parts)), ncol(crossprod(matrix(rnorm(2e6), ncol = 200))))
}
cat(work(), "\n")
invisible(gc())
if (nzchar(Sys.getenv("HAKMEM_BENCH_REST"))) {
  invisible(file.create(Sys.getenv("HAKMEM_BENCH_REST")))
  Sys.sleep(2.2)
}
