"""`saccade-tiny`: a model of a few million parameters, made from nothing by demonstrations on the generated worlds."""
