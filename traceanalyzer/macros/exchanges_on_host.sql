-- Whether a host slice of this name sends data to other processes or waits for theirs: MPI, or gloo of PyTorch.
CREATE OR REPLACE MACRO exchanges_on_host(name) AS
    starts_with(name, 'MPI_') OR starts_with(name, 'PMPI_') OR starts_with(name, 'gloo:') OR starts_with(name, 'mpi:');
