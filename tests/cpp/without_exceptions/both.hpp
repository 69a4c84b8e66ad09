// A part of the program that is compiled with exceptions.
float sum_with_exceptions();
