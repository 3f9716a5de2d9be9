import { describe, expect, it } from "vitest";
import { EXAMPLES, fromSpec, NOTHING, readContract, requestBody, withEstimate } from "./price";

describe("withEstimate", () => {
  it("gathers estimates and answers by contract", () => {
    let told = withEstimate(NOTHING, { contract: 0, n: 4096, price: 5.8, se: 0.1 });
    told = withEstimate(told, { contract: 0, n: 8192, price: 5.9, se: 0.07 });
    told = withEstimate(told, { contract: 1, answer: { kind: "price", price: 3 } });
    expect(told.estimates.get(0)?.map(({ n }) => n)).toEqual([4096, 8192]);
    expect(told.answers.get(1)?.price).toBe(3);
  });

  it("begins again when a later attempt does", () => {
    let told = withEstimate(NOTHING, { contract: 0, n: 8192, price: 5.9, se: 0.07 });
    told = withEstimate(told, { contract: 0, n: 4096, price: 5.8, se: 0.1 });
    expect(told.estimates.get(0)?.map(({ n }) => n)).toEqual([4096]);
  });

  it("ignores what it does not know", () => {
    expect(withEstimate(NOTHING, { contract: 0, later: true })).toBe(NOTHING);
  });
});

describe("contracts", () => {
  it("are objects in JSON", () => {
    expect(readContract('{"S": 100}')).toEqual({ contract: { S: 100 } });
    expect(readContract("[1]")).toEqual({ mistake: "A contract is an object: { … }" });
    expect(readContract("{S: 1}")).toHaveProperty("mistake");
  });

  it("go into a request and come back from a spec", () => {
    const contract = EXAMPLES[0]?.contract ?? {};
    expect(requestBody(contract, "mine")).toEqual({ kind: "price", name: "mine", spec: { contract } });
    expect(fromSpec({ contract, contracts: null })).toEqual(contract);
    expect(fromSpec({ contract: null, contracts: [contract] })).toBeNull();
  });
});
