// A scratchpad buffer in banks that lie one after the other; a bank does one read and one write a cycle.
// Two clients read and two write. Client 0 is never refused; client 1 is where client 0 uses the same bank.
// The word read is there in the next cycle and only then; read and write of one address in one cycle: the old word.

module dpu_scratchpad #(
  parameter int unsigned Words    = 1024,
  parameter int unsigned WordBits = 64,
  parameter int unsigned Banks    = 2,
  localparam int unsigned AddrW = (Words > 1) ? $clog2(Words) : 1
) (
  input  logic                     clk_i,

  input  logic [1:0]               rd_valid_i,
  input  logic [1:0][AddrW-1:0]    rd_addr_i,
  output logic [1:0]               rd_ready_o,
  output logic [1:0][WordBits-1:0] rd_data_o,

  input  logic [1:0]               wr_valid_i,
  input  logic [1:0][AddrW-1:0]    wr_addr_i,
  input  logic [1:0][WordBits-1:0] wr_data_i,
  output logic [1:0]               wr_ready_o
);

  localparam int unsigned BankWords = (Words + Banks - 1) / Banks;
  localparam int unsigned BankW     = (Banks > 1) ? $clog2(Banks) : 1;
  localparam int unsigned LocalW    = (BankWords > 1) ? $clog2(BankWords) : 1;

  // Comparators and one subtraction; with a power of two of words in a bank they reduce to a choice of bits.
  function automatic logic [BankW-1:0] bank_of(input logic [AddrW-1:0] addr);
    bank_of = '0;
    for (int unsigned b = 1; b < Banks; b++) begin
      if (32'(addr) >= b * BankWords) bank_of = BankW'(b);
    end
  endfunction

  function automatic logic [LocalW-1:0] local_of(input logic [AddrW-1:0] addr);
    local_of = LocalW'(addr);
    for (int unsigned b = 1; b < Banks; b++) begin
      if (32'(addr) >= b * BankWords) local_of = LocalW'(32'(addr) - b * BankWords);
    end
  endfunction

  logic [1:0][BankW-1:0]  rd_bank, wr_bank, rd_bank_q;
  logic [1:0][LocalW-1:0] rd_local, wr_local;
  logic [WordBits-1:0]    bank_data [Banks];

  for (genvar c = 0; c < 2; c++) begin : gen_client
    assign rd_bank[c]   = bank_of(rd_addr_i[c]);
    assign wr_bank[c]   = bank_of(wr_addr_i[c]);
    assign rd_local[c]  = local_of(rd_addr_i[c]);
    assign wr_local[c]  = local_of(wr_addr_i[c]);
    assign rd_data_o[c] = bank_data[rd_bank_q[c]];

    always_ff @(posedge clk_i) begin
      if (rd_valid_i[c]) rd_bank_q[c] <= rd_bank[c];
    end
  end

  assign rd_ready_o = {~(rd_valid_i[0] & (rd_bank[0] == rd_bank[1])), 1'b1};
  assign wr_ready_o = {~(wr_valid_i[0] & (wr_bank[0] == wr_bank[1])), 1'b1};

  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    logic [1:0] rd_hit, wr_hit;
    logic       rd_second, wr_second;  // client 1's turn; where there is none, nothing is left to choose

    for (genvar c = 0; c < 2; c++) begin : gen_hit
      assign rd_hit[c] = rd_valid_i[c] & (rd_bank[c] == BankW'(b));
      assign wr_hit[c] = wr_valid_i[c] & (wr_bank[c] == BankW'(b));
    end
    assign rd_second = rd_hit[1] & ~rd_hit[0];
    assign wr_second = wr_hit[1] & ~wr_hit[0];

    dpu_ram #(
      .Words (BankWords),
      .Width (WordBits)
    ) u_ram (
      .clk_i,
      .rd_en_i  (|rd_hit),
      .rd_addr_i(rd_local[rd_second]),
      .rd_data_o(bank_data[b]),
      .wr_en_i  (|wr_hit),
      .wr_addr_i(wr_local[wr_second]),
      .wr_data_i(wr_data_i[wr_second])
    );
  end

endmodule
